package presets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxProbes is how many field selections of an expression are probed.
	maxProbes = 128
	// maxProbeSteps bounds the work on all expressions of a preset; what is left is not probed.
	maxProbeSteps = 500_000
	// maxShownExpression is how long an expression may be to be shown in its guarded form.
	maxShownExpression = 160
)

// Unguarded reports the conditions, and the computed values of overrides, that fail for
// some VMs: they select a field that a VM, or its namespace, may lack. Such a condition
// refuses every VM without the field. Each problem shows the guarded form.
func (c *Compiled) Unguarded() field.ErrorList {
	var errs field.ErrorList
	left := maxProbeSteps
	at := field.NewPath("spec", "match", "conditions")
	for i, condition := range c.conditions {
		if selections := unguarded(condition.text, &left); len(selections) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("expression"), condition.text, guardAdvice(selections, condition.text, "")))
		}
	}
	if c.overrides != nil {
		visitLeaves(c.overrides, func(leaf *fieldNode) {
			if leaf.computed == nil {
				return
			}
			if selections := unguarded(leaf.computed.text, &left); len(selections) > 0 {
				errs = append(errs, field.Invalid(field.NewPath("spec", "overrides").Child(leaf.path), leaf.computed.text,
					guardAdvice(selections, leaf.computed.text, " : …")))
			}
		})
	}
	return errs
}

// NeverActs says why the preset can never act; empty where it can.
func (c *Compiled) NeverActs() string {
	if c.defaults == nil && c.overrides == nil && len(c.removes) == 0 && len(c.forbids) == 0 {
		return "it has no defaults, overrides, remove or forbid"
	}
	for _, condition := range c.conditions {
		if condition.isConstant() {
			e := evaluation{ctx: context.Background(), left: conditionCost}
			if holds, err := e.holds(condition); err == nil && !holds {
				return condition.name + " is always false"
			}
		}
	}
	return ""
}

// isConstant reports whether an expression reads nothing of the VM or its namespace.
func (x expression) isConstant() bool {
	env, err := conditionEnv()
	if err != nil {
		return false
	}
	checked, issues := env.Compile(x.text)
	if issues.Err() != nil {
		return false
	}
	for _, reference := range checked.NativeRep().ReferenceMap() {
		if reference.Name == "object" || reference.Name == "namespaceObject" {
			return false
		}
	}
	return true
}

// guardAdvice says which selections fail, and shows the guarded expression. A value, unlike
// a condition, needs an alternative.
func guardAdvice(selections []string, text, alternative string) string {
	var guards, inner []string
	for _, s := range selections {
		if strings.Contains(s, "[]") {
			inner = append(inner, s)
			continue
		}
		for _, g := range guardsOf(s) {
			if !slices.Contains(guards, g) {
				guards = append(guards, g)
			}
		}
	}
	if len(inner) > 0 {
		return fmt.Sprintf("%s may be absent, and the expression then fails; test it first, as in %s && …", celPath(inner[0]), elementGuards(inner))
	}
	if len(text) > maxShownExpression {
		text = "…"
	}
	guarded := fmt.Sprintf("%s && (%s)", strings.Join(guards, " && "), text)
	if alternative != "" {
		guarded = fmt.Sprintf("%s ? (%s)%s", strings.Join(guards, " && "), text, alternative)
	}
	return fmt.Sprintf("%s may be absent, and the expression then fails; write %s", celPath(selections[0]), guarded)
}

// elementGuards are the tests for selections from an element of a list, which they call x.
func elementGuards(selections []string) string {
	var out []string
	for _, s := range selections {
		out = append(out, "has("+celPath("x"+s[strings.LastIndex(s, "[]")+len("[]"):])+")")
	}
	return strings.Join(out[:min(len(out), 3)], " && ")
}

// guardsOf are the tests for each part of a selection that may be absent.
func guardsOf(selection string) []string {
	var out []string
	for i := range len(selection) + 1 {
		if i < len(selection) && selection[i] != pathSeparator {
			continue
		}
		part := selection[:i]
		if alwaysPresent[part] || !strings.ContainsRune(part, pathSeparator) {
			continue
		}
		cut := strings.LastIndexByte(part, pathSeparator)
		name := part[cut+1:]
		if isIdentifier(name) {
			out = append(out, "has("+celPath(part)+")")
		} else {
			out = append(out, fmt.Sprintf("'%s' in %s", name, celPath(part[:cut])))
		}
	}
	return out
}

// pathSeparator stands between the names of a selection; labels may contain dots.
const pathSeparator = '\x00'

// celPath is a selection as CEL writes it.
func celPath(selection string) string {
	var out strings.Builder
	for i, name := range strings.Split(selection, string(pathSeparator)) {
		switch {
		case i == 0:
			out.WriteString(name)
		case isIdentifier(strings.TrimSuffix(name, "[]")):
			out.WriteString("." + name)
		default:
			out.WriteString("['" + name + "']")
		}
	}
	return out.String()
}

func isIdentifier(name string) bool {
	for i := range len(name) {
		b := name[i]
		if b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return name != ""
}

// alwaysPresent are the fields that expressions find on every VM and its namespace.
var alwaysPresent = func() map[string]bool {
	out := map[string]bool{}
	for _, path := range []string{
		"object.apiVersion", "object.kind", "object.metadata.namespace", "object.spec.template.spec.domain.devices",
		"namespaceObject.apiVersion", "namespaceObject.kind", "namespaceObject.metadata.name",
		"namespaceObject.metadata.labels", "namespaceObject.metadata.annotations",
	} {
		names := strings.Split(path, ".")
		for i := range names {
			out[strings.Join(names[:i+1], string(pathSeparator))] = true
		}
	}
	out[strings.Join([]string{"namespaceObject", "metadata", "labels", "kubernetes.io/metadata.name"}, string(pathSeparator))] = true
	return out
}()
