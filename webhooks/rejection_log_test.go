package webhooks

import (
	"strings"
	"testing"
)

// TestRejectionCauses checks that a log line names the rule and the presets that a message names.
func TestRejectionCauses(t *testing.T) {
	for message, want := range map[string][2]string{
		`Unsupported value: "q53": supported values: "q35*" (machine-type-supported)`:                                                                                                          {"machine-type-supported", ""},
		`Unsupported value: "q53": supported values: "q35*" (machine-type-supported) (set by preset cluster/broken)`:                                                                           {"machine-type-supported", "cluster/broken"},
		`Required value: must say how much memory the guest has, such as 1Gi (memory-given); preset cluster/size-small gives memory.guest to VMs with vm-size=small; this VM has vm-size=smal`: {"memory-given", "cluster/size-small"},
		`Required value (memory-given); preset a/b gives x to VMs with c=d; this VM has none; preset cluster/e.f gives y to VMs for which its condition "big" is true`:                         {"memory-given", "a/b cluster/e.f"},
		`Invalid value: "x": unknown field (set by preset lab/mine)`:                                                                                                                           {"", "lab/mine"},
		`Forbidden: no passthrough in production (preset cluster/tier-prod)`:                                                                                                                   {"preset cluster/tier-prod", ""},
		`Invalid value: "(hunter2) (set by preset hunter3)": must be a name (name-valid)`:                                                                                                      {"name-valid", ""},
		`Invalid value: "; preset hunter2 (hunter3)": must be a name`:                                                                                                                          {"", ""},
		`Invalid value: "(hunter2)": must be a name`:                                                                                                                                           {"", ""},
	} {
		rule, named := rejectionCauses(message)
		if got := [2]string{rule, strings.Join(named, " ")}; got != want {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
}
