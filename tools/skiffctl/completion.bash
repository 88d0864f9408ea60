# Completion of skiffctl's command line for bash. The words of each command come from its own --help.
# shellcheck shell=bash

_skiffctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word help
  local -a command=() words=()
  COMPREPLY=()
  case ${previous} in
    -f | --file | --socket)
      compopt -o default 2>/dev/null
      return
      ;;
    log-level)
      mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "${current}")
      return
      ;;
  esac
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ ${word} == -* || ${word} == */* ]] || command+=("${word}")
  done
  help=$("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null) || return
  # Options are indented and begin with dashes; subcommands come after the line "Subcommands:".
  mapfile -t words < <(
    printf '%s\n' "${help}" | grep -oE -e '^  (-[a-z],)?--[a-z-]+' | sed -E 's/^ +(-[a-z],)?//'
    printf '%s\n' "${help}" | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p'
  )
  mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "${current}")
}

complete -F _skiffctl skiffctl
