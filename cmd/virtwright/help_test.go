package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagGroups checks that help has each flag once, in lines that fit, with common flags first.
func TestFlagGroups(t *testing.T) {
	const columns = 80
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		usage := flagUsages(c, columns)
		for line := range strings.Lines(usage) {
			if words := strings.Fields(line); width(strings.TrimRight(line, "\n")) > columns && len(words) > 3 {
				t.Errorf("%s: more than %d columns: %s", c.CommandPath(), columns, line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if n := len(regexp.MustCompile(`(?m)^  (-\w,|   ) --`+f.Name+`[ \[]`).FindAllString(usage, -1)); (n == 1) == f.Hidden {
				t.Errorf("%s: help has --%s %d times:\n%s", c.CommandPath(), f.Name, n, usage)
			}
		})
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(newRoot(program, streams{}))
	_, got, _ := strings.Cut(call(t, "", "expand", "--help").fine(t).out, "\nExamples:\n")
	_, got, _ = strings.Cut(got, "\n\n"+"Flags:")
	at := -1
	for _, text := range []string{"\n  -f, --filename", "--namespace ", "--output ", "--reapply ", "\nSettings of the cluster:\n      --mode", "--default-cpu-model", "\nAccess to the cluster:\n", "--kubeconfig", "\nGlobal flags:\n"} {
		next := strings.Index(got, text)
		if next <= at {
			t.Errorf("%q is missing or not in its place:\n%s", text, got)
		}
		at = next
	}
	root := call(t, "").fine(t).out
	if !strings.HasPrefix(root, "virtwright completes") || strings.Index(root, "Exit codes:") < strings.Index(root, "  template ") || strings.Index(root, "  expand ") > strings.Index(root, "  exceptions ") {
		t.Errorf("the root's help is not in order:\n%s", root)
	}
}

// TestFlagsThatAct checks that commands reject flags without effect.
func TestFlagsThatAct(t *testing.T) {
	for _, args := range []string{
		"plan --reapply", "plan --owner x", "drift --warnings Everything", "violations --reapply", "exceptions --default-cpu-model x",
		"import --owner x", "lint --reapply", "lint --preset-conflicts warn", "test --owner x", "start --force",
	} {
		got := call(t, "", strings.Fields(args)...)
		if got.code != exitUsage {
			t.Errorf("%s: exit code %d", args, got.code)
		}
		says(t, got.err, "unknown flag: ")
	}
}

func TestWrapText(t *testing.T) {
	for in, want := range map[string]string{
		"one two three":       "one two\nthree",
		"  one two three":     "  one two\n  three",
		"a\n\nb\nc":           "a\n\nb c",
		"averylongwordindeed": "averylongwordindeed",
		"a b c def":           "a b c def",
		"a b c d ef":          "a b c\nd ef",
		"run:\n\n\tone":       "run:\n\n\tone",
	} {
		if got := wrapText(in, 9); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
