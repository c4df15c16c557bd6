package main

import (
	"strings"
	"testing"
)

// TestFieldValidation checks that expand, render and validate handle unknown fields like an API
// server.
func TestFieldValidation(t *testing.T) {
	const path = "spec.template.spec.domain.cpu.CORES"
	for _, command := range []string{"expand", "render", "validate"} {
		rejected := call(t, misspelt, command, "-f", "-")
		if rejected.code != exitRejected {
			t.Errorf("%s: exit code %d: %s%s", command, rejected.code, rejected.out, rejected.err)
		}
		says(t, rejected.out+rejected.err, path, "unknown field")
		warned := call(t, misspelt, command, "-f", "-", "--validation", "warn").fine(t)
		says(t, strings.ToLower(warned.err), "warning: ", strings.ToLower(path), "unknown field")
		ignored := call(t, misspelt, command, "-f", "-", "--validation", "ignore").fine(t)
		if text := warned.out + ignored.out + ignored.err; command != "validate" && strings.Contains(text, "CORES") {
			t.Errorf("%s: the field is still there:\n%s", command, text)
		}
	}
}

func TestRenderWantsAName(t *testing.T) {
	got := call(t, strings.Replace(misspelt, "{name: vm}", "{}", 1), "render", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "metadata.name: Required", "unknown field")
}

func TestGenerateWantsRightTypes(t *testing.T) {
	got := call(t, sparse+"spec: {template: {spec: {domain: {cpu: {cores: [many]}}}}}\n", "template", "generate", "-f", "-")
	if got.code != exitRejected || got.out != "" {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "spec.template.spec.domain.cpu.cores", "must be a whole number")
}
