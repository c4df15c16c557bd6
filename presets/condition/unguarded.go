package condition

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Unguarded reports the conditions and computed overrides that select a field without a test, and
// so reject every VM without the field. A selection in a variable is reported there. Each problem
// shows a safe expression. It takes at most AllSteps, or fewer if steps is not 0, and returns false
// if these were too few.
func (s Set) Unguarded(steps int) (errs field.ErrorList, complete bool) {
	a := s.analysis(min(cmp.Or(steps, AllSteps), AllSteps))
	for i, condition := range s.Conditions {
		if a.check(condition, conditionPath(i), &errs) {
			a.guards = append(a.guards, condition.syntax) // the next one is evaluated only if this one is true
		}
	}
	maps.Copy(a.alwaysSet, selectionsTo(s.Overridden))
	for _, x := range s.Overrides {
		a.check(x.Expression, overridePath(x), &errs)
	}
	return errs, a.steps > 0
}

// GuardedDefaults returns the fields of defaults whose expressions do not fail because a VM lacks a
// field.
func (s Set) GuardedDefaults() []string {
	var out []string
	a := s.analysis(AllSteps)
	for i := range s.Conditions {
		a.guards = append(a.guards, s.Conditions[i].syntax)
	}
	for _, x := range s.Defaults {
		if a.origins = x.origins; len(a.unguarded(x.syntax)) == 0 {
			out = append(out, x.Field)
		}
	}
	return out
}

// analysis returns an analysis that knows the labels which the preset selects.
func (s Set) analysis(steps int) analysis {
	return analysis{steps: steps, alwaysSet: setBySelector("namespaceObject", s.Namespaces), selected: setBySelector("object", s.Labels)}
}

// setBySelector returns the labels that each object has that a selector matches.
func setBySelector(object string, selector labels.Selector) map[string]bool {
	out := map[string]bool{}
	if selector == nil {
		return out
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.DoesNotExist, selection.NotIn, selection.NotEquals:
		default:
			out[strings.Join([]string{object, "metadata", "labels", r.Key()}, pathSeparator)] = true
		}
	}
	return out
}

// selectionsTo returns the selections of fields outside of lists, and of the objects around them.
func selectionsTo(paths []provenance.Path) map[string]bool {
	out := map[string]bool{}
	for _, path := range paths {
		names := []string{"object"}
		for _, seg := range path {
			if seg.Kind != provenance.Field {
				break
			}
			names = append(names, seg.Name)
			out[strings.Join(names, pathSeparator)] = true
		}
	}
	return out
}

// check reports why an expression may fail, and what to write instead, at the expression or at the
// variables with the selections that fail. It returns false for constants.
func (a *analysis) check(x Expression, at *field.Path, errs *field.ErrorList) bool {
	report := func(at *field.Path, text, why string) {
		problem := field.Invalid(at, text, why)
		known := slices.ContainsFunc(*errs, func(e *field.Error) bool { return e.Error() == problem.Error() })
		if why != "" && !known { // several expressions may use a variable
			*errs = append(*errs, problem)
		}
	}
	if x.isConstant() {
		e := Evaluation{Context: context.Background(), Budget: constantCost}
		if _, err := e.Value(x); err != nil {
			report(at, x.Text, "always fails: "+err.Error())
		}
		return false
	}
	a.origins = x.origins
	failing := map[*Variable][]string{}
	for _, selection := range a.unguarded(x.syntax) {
		v := a.from[selection]
		failing[v] = append(failing[v], selection)
	}
	report(at, x.Text, a.advice(failing[nil]))
	delete(failing, nil)
	for _, v := range slices.SortedFunc(maps.Keys(failing), func(a, b *Variable) int { return a.index - b.index }) {
		report(v.path(), v.Text, a.advice(failing[v]))
	}
	return true
}

// FalseCondition returns the index of a condition that is false for every VM; -1 if there is none.
func (s Set) FalseCondition() int {
	return slices.IndexFunc(s.Conditions, func(condition Expression) bool {
		if !condition.isConstant() {
			return false
		}
		e := Evaluation{Context: context.Background(), Budget: constantCost}
		holds, err := e.Holds(condition)
		return err == nil && !holds
	})
}

// isConstant reports whether an expression reads nothing, and costs little.
func (x Expression) isConstant() bool {
	return x.most <= constantCost && !strings.Contains(x.Text, "object") && !strings.Contains(x.Text, "namespaceObject")
}

// advice says for which VMs an expression fails, and what to write instead.
func (a *analysis) advice(selections []string) string {
	// The safe form of a nested selection covers those around it.
	longest := slices.DeleteFunc(slices.Clone(selections), func(s string) bool {
		return slices.ContainsFunc(selections, func(o string) bool {
			return strings.HasPrefix(o, s+pathSeparator) || strings.HasPrefix(o, s+"[]"+pathSeparator)
		})
	})
	if len(longest) == 0 {
		return ""
	}
	var absent, instead []string
	for _, s := range longest[:min(len(longest), maxAdvised)] {
		absent = append(absent, celPath(s))
		instead = append(instead, a.optionalForm(s))
	}
	out := fmt.Sprintf("fails for VMs without %s; write %s instead", strings.Join(absent, " or "), strings.Join(instead, " and "))
	if slices.ContainsFunc(longest, func(s string) bool { return a.selected[s] }) {
		out += " (match.labels also matches VMs whose template has the label)"
	}
	return out
}

// optionalForm returns a form of a selection that never fails. It calls a list element x.
func (a *analysis) optionalForm(selection string) string {
	names := strings.Split(selection, pathSeparator)
	start, form, optional := 1, names[0], ""
	if i := strings.LastIndex(selection, "[]"+pathSeparator); i >= 0 {
		start, form = strings.Count(selection[:i], pathSeparator)+1, "x"
	}
	for i, name := range names[start:] {
		if optional == "" && !isAlwaysPresent(strings.Join(names[:start+i+1], pathSeparator)) {
			optional = "?"
		}
		form += celStep(optional, name)
	}
	return form + ".orValue(" + a.zeroOf(selection) + ")"
}

// zeroOf returns a value with which the expression does not fail if the selection is absent.
func (a *analysis) zeroOf(selection string) string {
	if example := a.converted[selection]; example != "" {
		return example
	}
	if s := schemaOfSelection(selection); s != nil && celValues[s.Shape].zero != "" {
		return celValues[s.Shape].zero
	}
	return "''"
}

// schemaOfSelection returns the schema of a selection from object; nil for others.
func schemaOfSelection(selection string) *vmschema.Schema {
	names := strings.Split(selection, pathSeparator)
	if names[0] != "object" {
		return nil
	}
	s := vmschema.VM()
	for _, name := range names[1:] {
		plain := strings.TrimSuffix(name, "[]")
		if s.Shape == vmschema.Map {
			s = s.Elem
		} else {
			s = s.Fields[plain]
		}
		if s != nil && plain != name {
			s = s.Elem
		}
		if s == nil {
			return nil
		}
	}
	return s
}

const (
	pathSeparator = "\x00" // between the names of a selection; labels may contain dots
	anyKey        = "*"    // a map key that is known only during evaluation
)

func celPath(selection string) string {
	var path strings.Builder
	for i, name := range strings.Split(selection, pathSeparator) {
		if i > 0 {
			name = celStep("", name)
		}
		path.WriteString(name)
	}
	return path.String()
}

func celStep(optional, name string) string {
	switch {
	case name == anyKey:
		return "[" + optional + "KEY]"
	case isIdentifier(strings.TrimSuffix(name, "[]")):
		return "." + optional + name
	}
	return "[" + optional + "'" + name + "']"
}

var celReserved = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(celReserved, name)
}

// isAlwaysPresent reports whether a selection is filled in or required in every VM and namespace.
func isAlwaysPresent(selection string) bool {
	if filledIn[selection] {
		return true
	}
	cut := strings.LastIndex(selection, pathSeparator)
	if cut < 0 {
		return false
	}
	parent := schemaOfSelection(selection[:cut])
	return parent != nil && parent.Required[selection[cut+len(pathSeparator):]]
}

var filledIn = func() map[string]bool {
	out := map[string]bool{}
	for _, path := range []string{
		"object.apiVersion", "object.kind", "object.metadata.namespace", "object.spec.template.spec.domain.devices",
		"namespaceObject.apiVersion", "namespaceObject.kind", "namespaceObject.metadata.name",
		"namespaceObject.metadata.labels", "namespaceObject.metadata.annotations",
	} {
		names := strings.Split(path, ".")
		for i := range names {
			out[strings.Join(names[:i+1], pathSeparator)] = true
		}
	}
	out[strings.Join([]string{"namespaceObject", "metadata", "labels", "kubernetes.io/metadata.name"}, pathSeparator)] = true
	return out
}()

// An analysis finds the selections with which expressions of one preset fail.
type analysis struct {
	steps     int             // evaluations that may follow; an analysis that runs out reports nothing
	guards    []ast.Expr      // conditions that are true when the expression is evaluated
	alwaysSet map[string]bool // selections that the preset sets, or that its selector requires
	// selected are labels that the preset's selector requires of the VM or of its template.
	selected map[string]bool
	// converted has selections that the expression converts from text, each with a valid text.
	converted map[string]string
	// origins are those of the expression. from has the variable in which a selection is; nil if it
	// is in several, or in the expression itself.
	origins map[int64]*Variable
	from    map[string]*Variable
}

const (
	// AllSteps limits the nodes that an analysis of all expressions of a preset visits; the rest is
	// not analysed. They take a tenth of a second.
	AllSteps = 500_000

	maxAdvised    = 3     // selections that a message names
	maxSelections = 128   // of an expression that are examined
	constantCost  = 1_000 // of a constant that is evaluated
)

// unguarded lists the selections that make an expression fail if only they are absent.
func (a *analysis) unguarded(e ast.Expr) []string {
	a.converted, a.from = map[string]string{}, map[string]*Variable{}
	survey := abstractEval{analysis: a, seen: map[string]bool{}}
	survey.eval(e, nil)
	var out []string
	for _, selection := range survey.order[:min(len(survey.order), maxSelections)] {
		if a.steps > 0 && a.fails(e, selection) {
			out = append(out, selection)
		}
	}
	return out
}

// fails reports whether an expression may fail without a selection, if all guards are true.
func (a *analysis) fails(e ast.Expr, selection string) bool {
	p := abstractEval{analysis: a, absent: selection}
	for _, guard := range a.guards {
		if p.eval(guard, nil).may&isTrue == 0 {
			return false
		}
	}
	return p.eval(e, nil).may&fails != 0 && a.steps > 0
}
