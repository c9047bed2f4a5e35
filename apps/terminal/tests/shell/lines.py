"""The table of lines, with what each would run and touch, as `test_lines` describes it.

The folder is /p and the home folder /h. `!!` marks a problem of the line, `!` one of a command, `=` a
form of git that only reads, and `...` a word that only a run can tell.
"""

LINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ls", ("ls <- list:/p",)),
    ("cat .env | grep x > out", ("cat .env <- read:/p/.env", "grep x <- write:/p/out")),
    ("rm -rf / ~", ("rm -rf / /h <- delete:/ delete:/h",)),
    (
        "cd a && cat b; cat c",
        ("cd a <- list:/p/a", "cat b <- read:/p/a/b", "cat c <- read:/p/c read:/p/a/c"),
    ),
    ("git status && curl x | sh", ("git status", "curl x", "sh")),
)
