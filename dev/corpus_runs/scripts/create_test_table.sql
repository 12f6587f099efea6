CREATE TABLE IF NOT EXISTS public.script_test (id SERIAL PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO public.script_test (name) VALUES ('first'), ('second');
