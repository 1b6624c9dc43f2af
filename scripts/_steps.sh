# Sourced by check and test: running named steps, all of them even if one fails, and telling at the end which did.

failed=()

# step NAME "WHAT TO DO IF IT FAILS" COMMAND…
step() {
  local name=$1 advice=$2 started=$SECONDS
  shift 2
  printf '== %s\n' "$name"
  if "$@"; then
    printf '   %s: ok, %d s\n' "$name" "$((SECONDS - started))"
  else
    printf '   %s: FAILED. %s\n' "$name" "$advice"
    failed+=("$name: $advice")
  fi
}

# report: false if a step failed; names each and what to do.
report() {
  [ ${#failed[@]} = 0 ] && return
  printf '\n%d step(s) failed:\n' "${#failed[@]}"
  printf '  - %s\n' "${failed[@]}"
  return 1
}

# The static gates, which check and test share.
gates() {
  local bin=.venv/bin
  step "format" "Run: $bin/ruff format ." $bin/ruff format --check --output-format concise .
  step "lint" "Run: $bin/ruff check --fix . ; a noqa names its rule and a reason." $bin/ruff check .
  step "types" "Mend the type; a cast or ignore carries its reason." $bin/basedpyright
  step "types, as a user sees them" "Keep what tests/typing promises: these types are public." $bin/mypy
  step "layers" "Move the code or turn the import round; the contracts are in pyproject.toml." $bin/lint-imports --no-logo
  step "dead code" "Delete it." $bin/vulture
  step "dependencies" "Declare in pyproject.toml what is imported, and only that; then ./scripts/pin." $bin/deptry src
}
