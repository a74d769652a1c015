#!/usr/bin/env python3
"""make_completions.py PROGRAM -o FOLDER: completions for bash (FOLDER/tessera) and zsh
(FOLDER/_tessera), made from what the program says with --help (scripts/cli_help.py).
"""

import argparse
import os

from cli_help import read_command

BASH = """\
# bash completion for tessera; made by scripts/make_completions.py

_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=tessera i
  # --option=value arrives as three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $previous == = && COMP_CWORD -ge 3 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
      @COMMANDS@) command+=" ${COMP_WORDS[i]}" ;;
    esac
  done

  COMPREPLY=()
  case "$command $previous" in
@VALUES@
  esac
  local options= others= takes=
  case $command in
@WORDS@
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n $others ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$others" -- "$word")
  else
    case $takes in
      file) _tessera_paths -f ;;
      folder) _tessera_paths -d ;;
    esac
  fi
}

# -f: files and folders, -d: folders; the word is the caller's.
_tessera_paths() {
  compopt -o filenames 2>/dev/null  # fails outside of a completion
  mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}

complete -F _tessera tessera
"""


def bash_patterns(words):
    return " | ".join(f"'{word}'" for word in words)


def bash_value_cases(command):
    """Cases of a command's options that take a value."""
    names = " ".join(command.path)
    cases = []
    for option in command.options:
        if not option.value:
            continue
        if option.choices:
            action = f"mapfile -t COMPREPLY < <(compgen -W '{' '.join(option.choices)}' -- \"$word\")"
        elif option.takes_number:
            action = ":"
        elif option.takes_folder:
            action = "_tessera_paths -d"
        else:  # free text may well be the name of a file
            action = "_tessera_paths -f"
        patterns = bash_patterns(f"{names} {name}" for name in option.names)
        cases.append(f"    {patterns})\n      {action}\n      return\n      ;;")
    return cases


def bash_words_case(command):
    options = " ".join(name for option in command.options for name in option.names)
    others = " ".join(below.path[-1] for below in command.commands)
    takes = ""
    for positional in command.positionals:
        takes = "file" if positional.takes_file else "folder" if positional.takes_folder else takes
    return (f"    '{' '.join(command.path)}')\n      options='{options}'\n"
            f"      others='{others}'\n      takes={takes}\n      ;;")


def bash_script(root):
    commands = list(root.walk())
    values = [case for command in commands for case in bash_value_cases(command)]
    return (BASH.replace("@COMMANDS@", bash_patterns(" ".join(c.path) for c in commands[1:]))
            .replace("@VALUES@", "\n".join(values))
            .replace("@WORDS@", "\n".join(bash_words_case(command) for command in commands)))


def zsh_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text):
    """A description inside [...] of an _arguments specification."""
    for character in "\\[]:":
        text = text.replace(character, "\\" + character)
    return text


def zsh_action(option):
    if option.choices:
        return "(" + " ".join(option.choices) + ")"
    if option.takes_number:
        return " "
    return "_path_files -/" if option.takes_folder else "_files"


def zsh_option(option):
    """Arguments of _arguments for one option: it excludes its other names unless it repeats."""
    value = f":{zsh_text(option.value)}:{zsh_action(option)}" if option.value else ""
    specifications = []
    for name in option.names:
        before = "*" if option.is_repeated else f"({' '.join(option.names)})"
        separator = "=" if option.value and name.startswith("--") else ""
        specifications.append(
            zsh_quoted(f"{before}{name}{separator}[{zsh_text(option.text)}]{value}"))
    return specifications


def zsh_function(command):
    lines = [f"_{'_'.join(command.path)}() {{"]
    arguments = [word for option in command.options for word in zsh_option(option)]
    if command.commands:
        lines.append("  local context state state_descr line\n  typeset -A opt_args")
        arguments += ["': :->command'", "'*:: :->argument'"]
    for positional in command.positionals:
        # Free text gets no argument of its own: zsh would then list options and insert none.
        if positional.takes_file or positional.takes_folder:
            before = "*" if positional.is_repeated else ""
            arguments.append(zsh_quoted(f"{before}:{zsh_text(positional.names[0])}:"
                                        f"{zsh_action(positional)}"))
    start = "_arguments -C" if command.commands else "_arguments"
    lines.append("  " + " \\\n    ".join([start] + arguments))
    if command.commands:
        lines += ["  case $state in", "    command)", "      local -a commands=("]
        lines += [f"        {zsh_quoted(below.path[-1] + ':' + below.text)}"
                  for below in command.commands]
        lines += ["      )", "      _describe command commands", "      ;;", "    argument)",
                  "      case $line[1] in"]
        lines += [f"        {below.path[-1]}) _{'_'.join(below.path)} ;;"
                  for below in command.commands]
        lines += ["      esac", "      ;;", "  esac"]
    return "\n".join(lines + ["}"])


def zsh_script(root):
    functions = "\n\n".join(zsh_function(command) for command in root.walk())
    return ("#compdef tessera\n# zsh completion for tessera; made by scripts/make_completions.py\n\n"
            f"{functions}\n\n_tessera \"$@\"\n")


def main():
    parser = argparse.ArgumentParser(description="Makes completions for bash and zsh.")
    parser.add_argument("program")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    root = read_command(arguments.program)
    os.makedirs(arguments.output, exist_ok=True)
    for name, text in (("tessera", bash_script(root)), ("_tessera", zsh_script(root))):
        with open(os.path.join(arguments.output, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
