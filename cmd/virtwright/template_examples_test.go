package main

import (
	"os"
	"strings"
	"testing"
)

// TestTemplateExamples runs the examples of help texts that need no cluster.
func TestTemplateExamples(t *testing.T) {
	t.Chdir("../..")
	tried := 0
	for line := range strings.Lines(generateExamples + "\n" + processExamples) {
		line = strings.TrimSpace(strings.ReplaceAll(line, "{{program}}", program))
		if strings.HasPrefix(line, "#") || strings.Contains(line, "web-template.yaml") || line == "" {
			continue
		}
		tried++
		if shell(t, line) == "" {
			t.Errorf("%s: no output", line)
		}
	}
	if tried < 4 {
		t.Errorf("found only %d examples", tried)
	}
}

func writeHere(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shell runs a pipeline of calls and returns its output, which is empty if it goes to a file.
func shell(t *testing.T, line string) string {
	t.Helper()
	line, file, _ := strings.Cut(line, " >")
	out := ""
	for command := range strings.SplitSeq(line, " | ") {
		args, ok := strings.CutPrefix(command, "virtwright ")
		if !ok {
			t.Fatalf("not a call of virtwright: %s", command)
		}
		out = call(t, out, strings.Fields(strings.ReplaceAll(args, "'", ""))...).fine(t).out
	}
	if file == "" {
		return out
	}
	writeHere(t, file, out)
	return ""
}
