#!/bin/sh
# Checks a change of presets without a cluster. Run it in a repository with the folders presets (with
# Namespaces and policies, if there are any), tests and vms. BASE is the git revision to compare with.
#
# It fails if lint has a finding, if a test case fails, or if a VM is refused. It writes junit.xml, and
# plan.md, which is a comment for the pull request: add both to .gitignore.
set -u
failed=0

virtwright lint -f presets || failed=1

virtwright test -f tests -o junit > junit.xml || failed=1
virtwright test -f tests --coverage

# The VMs of this repository with these presets. plan leaves out what was refused before.
virtwright validate -f vms -f presets || failed=1

# Exit code 1 says that VMs change, which is usually the aim. 4 says that a VM would be refused, or that
# presets would conflict; 2 that the plan could not be made.
virtwright plan -f presets -f vms --base-ref "${BASE:-origin/main}" -o markdown > plan.md
[ "$?" -le 1 ] || failed=1
if [ -s plan.md ]; then cat plan.md; else rm plan.md; fi

exit "$failed"
