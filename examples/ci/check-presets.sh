#!/bin/sh
# Checks a change of presets without a cluster. Run it in a repository with the folders presets,
# tests and vms. Namespaces and policies belong in presets, too. BASE is the git revision to compare
# with (default: origin/main). Set FAIL_ON=rejection for an approved change that loosens presets.
#
# It fails if lint has a finding, a test case fails, a VM is rejected, or a change loosens presets.
# It writes junit.xml, and plan.md as a comment for the pull request. Add both to .gitignore.
set -u
failed=0

virtwright lint -f presets || failed=1

virtwright test -f tests -o junit > junit.xml || failed=1
virtwright test -f tests --coverage

# Validate the VMs of this repository with these presets. plan omits VMs that were rejected before.
virtwright validate -f vms -f presets || failed=1

# Exit codes of plan: 1 if VMs change, which is usually intended; 2 if it cannot make the plan; 4 if
# a VM would be rejected, presets would conflict, or a change loosens presets.
virtwright plan -f presets -f vms --base-ref "${BASE:-origin/main}" --fail-on "${FAIL_ON:-loosening}" \
  -o markdown > plan.md
[ "$?" -le 1 ] || failed=1
if [ -s plan.md ]; then cat plan.md; else rm plan.md; fi

exit "$failed"
