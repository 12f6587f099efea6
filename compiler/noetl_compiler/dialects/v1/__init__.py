"""The v1 dialect: steps of a type, with loops over steps and a workbook (dev/decisions/0010)."""
