package validation_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// TestEveryRuleHasFixtures checks that each rule has an object that it rejects and one that it
// admits.
func TestEveryRuleHasFixtures(t *testing.T) {
	fixtures := validationtest.Fixtures(t)
	seen := sets.New[string]()
	for _, rule := range validation.Rules() {
		if seen.Has(rule.ID) {
			t.Errorf("rule %s occurs twice", rule.ID)
		}
		seen.Insert(rule.ID)
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(rule.ID) || !strings.HasSuffix(rule.Requirement, ".") || rule.Check == nil {
			t.Errorf("rule %s needs an ID of several words, a sentence and a check", rule.ID)
		}
		verdicts := sets.New[validationtest.Verdict]()
		for _, f := range fixtures[rule.ID] {
			verdicts.Insert(f.Verdict)
		}
		if !verdicts.HasAny(validationtest.Bad, validationtest.Warned) || !verdicts.Has(validationtest.Good) {
			t.Errorf("rule %s has no bad or no good fixture", rule.ID)
		}
	}
	for id := range fixtures {
		if !seen.Has(id) {
			t.Errorf("fixtures %s have no rule", id)
		}
	}
}

func TestFixtures(t *testing.T) {
	for id, fixtures := range validationtest.Fixtures(t) {
		for _, f := range fixtures {
			t.Run(id+"/"+f.Name, func(t *testing.T) { judge(t, &f) })
		}
	}
}

// judge checks that the rule of f, and no other, reports the expected problems.
func judge(t *testing.T, f *validationtest.Fixture) {
	result := f.Config.Validate(f.ExpandedVM(t))
	suffix := "(" + f.Rule + ")"
	var fields []string
	for _, err := range result.Errors {
		fields = append(fields, err.Field)
		if !strings.HasSuffix(err.Error(), suffix) {
			t.Errorf("another rule rejects: %v", err)
		}
		if !strings.Contains(err.Error(), f.Says) {
			t.Errorf("%q should say %q", err, f.Says)
		}
	}
	if bad := f.Verdict == validationtest.Bad; bad != (len(fields) > 0) || bad && !slices.Equal(fields, f.Fields) {
		t.Errorf("%s: want problems with %q, got %v", f.Verdict, f.Fields, result.Errors)
	}
	warned := slices.ContainsFunc(result.Warnings, func(w string) bool {
		return strings.HasSuffix(w, suffix) && strings.Contains(w, f.Says)
	})
	if warned != (f.Verdict == validationtest.Warned) {
		t.Errorf("%s: got warnings %q", f.Verdict, result.Warnings)
	}
}
