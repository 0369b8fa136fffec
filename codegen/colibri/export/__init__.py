"""A generated package in the form that another build system or framework expects.

`forms.FORMS` lists the forms; each is one file here and a folder in `templates/export/`.
"""
