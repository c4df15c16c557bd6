package main

import (
	"io"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "expected a command",
		"start":                      `unknown command "start"`,
		"run --kvm":                  "flag provided but not defined",
		"probe":                      "expected a probe",
		"probe exec --timeout=x":     "invalid value",
		"copy":                       "as many --from as --to",
		"copy --from=a":              "as many --from as --to",
		"copy --from=a --to=b extra": "as many --from as --to",
	} {
		code, err := run(strings.Fields(args), io.Discard)
		if code != invalid || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: code %d, %v, want %q", args, code, err, want)
		}
	}
	for args, want := range map[string]string{
		"probe started":             "the guest has not started",
		"copy --from=/none --to=/x": "no such file",
	} {
		if code, err := run(strings.Fields(args), io.Discard); code != 1 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: code %d, %v, want %q", args, code, err, want)
		}
	}
}
