"""The pages of the club's office: lists, a registration, tasks, and an export, behind the admin key.

Pages are written by the server and have no script. This room must never show a page without a sign-in,
and must never change anything without the token of its form.
"""
