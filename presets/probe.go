package presets

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// unguarded lists the selections of an expression that make it fail where they alone are
// absent, with everything that they lie in present.
func unguarded(text string, left *int) []string {
	env, err := conditionEnv()
	if err != nil {
		return nil
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil
	}
	return unguardedIn(checked, left)
}

func unguardedIn(checked *cel.Ast, left *int) []string {
	root := checked.NativeRep().Expr()
	survey := probe{seen: map[string]bool{}, left: left}
	survey.eval(root, nil)
	var out []string
	for i, selection := range survey.order {
		if i >= maxProbes {
			break
		}
		p := probe{absent: selection, left: left}
		if p.eval(root, nil).may&fails != 0 && *left > 0 {
			out = append(out, selection)
		}
	}
	return out
}

// An outcome is what an expression may evaluate to.
type outcome struct {
	may outcomes
	// path is the selection that the value is, if it is one.
	path string
	// optional says that the value is an optional, and missing that it has no value.
	optional, missing bool
}

type outcomes uint8

const (
	isTrue outcomes = 1 << iota
	isFalse
	isOther
	fails
	succeeds = isTrue | isFalse | isOther
)

// A probe evaluates an expression for every VM at once that lacks one field. It tracks
// what may be true, false or fail, and assumes nothing about values.
type probe struct {
	// absent is the selection that VMs lack; a survey lacks nothing.
	absent string
	// seen and order collect the selections of a survey.
	seen  map[string]bool
	order []string
	// left is how many evaluations may follow; a probe that runs out makes no claim.
	left *int
}

// A scope binds the variables of a comprehension.
type scope struct {
	parent *scope
	name   string
	value  outcome
}

func (s *scope) lookup(name string) (outcome, bool) {
	for ; s != nil; s = s.parent {
		if s.name == name {
			return s.value, true
		}
	}
	return outcome{}, false
}

func (p *probe) eval(e ast.Expr, in *scope) outcome {
	if *p.left--; *p.left <= 0 {
		return outcome{may: isOther}
	}
	switch e.Kind() {
	case ast.LiteralKind:
		switch e.AsLiteral().Value() {
		case true:
			return outcome{may: isTrue}
		case false:
			return outcome{may: isFalse}
		}
		return outcome{may: isOther}
	case ast.IdentKind:
		if bound, ok := in.lookup(e.AsIdent()); ok {
			return bound
		}
		return outcome{may: succeeds, path: e.AsIdent()}
	case ast.SelectKind:
		s := e.AsSelect()
		return p.selects(p.eval(s.Operand(), in), s.FieldName(), s.IsTestOnly())
	case ast.CallKind:
		return p.call(e.AsCall(), in)
	case ast.ComprehensionKind:
		return p.comprehension(e.AsComprehension(), in)
	}
	return p.parts(e, in)
}

// parts evaluates a list, map or message, which fails if one of its parts does.
func (p *probe) parts(e ast.Expr, in *scope) outcome {
	out := outcome{may: isOther}
	add := func(part ast.Expr) { out.may |= p.eval(part, in).may & fails }
	switch e.Kind() {
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			add(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			add(entry.AsMapEntry().Key())
			add(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			add(f.AsStructField().Value())
		}
	}
	return out
}

// selects evaluates the selection of a field, or has() of it.
func (p *probe) selects(of outcome, name string, test bool) outcome {
	failed := of.may & fails
	switch {
	case of.missing:
		return outcome{may: isOther | failed, optional: true, missing: true}
	case of.path == "":
		return outcome{may: succeeds | failed}
	}
	at := of.path + string(pathSeparator) + name
	switch {
	case test:
		return outcome{may: p.presence(at) | failed}
	case p.lacks(at) && of.optional:
		return outcome{may: isOther, optional: true, missing: true}
	case p.lacks(at):
		return outcome{may: fails}
	}
	p.note(at)
	return outcome{may: succeeds | failed, path: at, optional: of.optional}
}

func (p *probe) lacks(path string) bool { return path == p.absent && p.absent != "" }

// note adds a selection to the survey, unless every VM has it.
func (p *probe) note(path string) {
	if p.seen != nil && !p.seen[path] && !alwaysPresent[path] && !isElementKey(path) {
		p.seen[path] = true
		p.order = append(p.order, path)
	}
}

// isElementKey reports whether a selection is the name of a list's element, which rules
// require.
func isElementKey(path string) bool {
	return strings.HasSuffix(path, "[]"+string(pathSeparator)+"name")
}

// presence is what has() says of a path.
func (p *probe) presence(path string) outcomes {
	switch {
	case p.lacks(path):
		return isFalse
	case alwaysPresent[path], strings.HasPrefix(p.absent, path+string(pathSeparator)), strings.HasPrefix(p.absent, path+"[]"):
		return isTrue
	}
	return isTrue | isFalse
}

func (p *probe) call(call ast.CallExpr, in *scope) outcome {
	var args []outcome
	if call.IsMemberFunction() {
		args = append(args, p.eval(call.Target(), in))
	}
	for _, arg := range call.Args() {
		args = append(args, p.eval(arg, in))
	}
	switch name := call.FunctionName(); name {
	case "_&&_", "_||_":
		return logical(args, name == "_||_")
	case "!_":
		return outcome{may: negated(args[0].may)}
	case "_?_:_":
		return choose(args[0], args[1], args[2])
	case "_[_]", "_?._", "_[?_]":
		return p.index(args[0], args[1], textOf(call.Args()[len(call.Args())-1]), name != "_[_]")
	case "@in":
		return p.contains(args[1], args[0], textOf(call.Args()[0]))
	default:
		return called(name, args)
	}
}

// textOf is the text of a string literal; empty for other expressions.
func textOf(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	text, _ := e.AsLiteral().Value().(string)
	return text
}

// called evaluates a function that is not CEL's own logic: it fails where its arguments do.
func called(name string, args []outcome) outcome {
	out := outcome{may: succeeds}
	for _, arg := range args {
		out.may |= arg.may & fails
	}
	if len(args) == 1 && args[0].missing {
		switch name {
		case "value":
			return outcome{may: fails}
		case "hasValue":
			return outcome{may: isFalse}
		}
	}
	return out
}

// index evaluates an index, or an optional selection, by name or by another expression.
func (p *probe) index(of, key outcome, name string, optional bool) outcome {
	failed := (of.may | key.may) & fails
	at := of.path + string(pathSeparator) + name
	switch {
	case of.missing, of.path != "" && name != "" && optional && p.lacks(at):
		return outcome{may: isOther | failed, optional: true, missing: true}
	case of.path == "":
		return outcome{may: succeeds | failed}
	case name == "":
		return outcome{may: succeeds | failed, path: of.path + "[]"}
	case !optional:
		return p.selects(outcome{may: of.may | failed, path: of.path, optional: of.optional}, name, false)
	}
	p.note(at)
	return outcome{may: succeeds | failed, path: at, optional: true}
}

// contains evaluates a test for a key, or for another value.
func (p *probe) contains(of, key outcome, name string) outcome {
	failed := (of.may | key.may) & fails
	if of.path == "" || name == "" {
		return outcome{may: isTrue | isFalse | failed}
	}
	return outcome{may: p.presence(of.path+string(pathSeparator)+name) | failed}
}

// logical evaluates && or ||, in which one side that decides hides a failure of the other.
func logical(args []outcome, or bool) outcome {
	decides, neutral := isFalse, isTrue
	if or {
		decides, neutral = isTrue, isFalse
	}
	a, b := args[0].may, args[1].may
	var out outcomes
	if (a|b)&decides != 0 {
		out |= decides
	}
	if a&neutral != 0 && b&neutral != 0 {
		out |= neutral
	}
	if a&fails != 0 && b&^decides != 0 || b&fails != 0 && a&^decides != 0 {
		out |= fails
	}
	return outcome{may: out}
}

func negated(a outcomes) outcomes {
	out := a & fails
	if a&isTrue != 0 {
		out |= isFalse
	}
	if a&isFalse != 0 {
		out |= isTrue
	}
	return out
}

func choose(condition, yes, no outcome) outcome {
	out := outcome{may: condition.may & fails}
	if condition.may&isTrue != 0 {
		out = union(out, yes)
	}
	if condition.may&isFalse != 0 {
		out = union(out, no)
	}
	return out
}

func union(a, b outcome) outcome {
	out := outcome{may: a.may | b.may, optional: a.optional || b.optional, missing: a.missing && b.missing}
	if a.path == b.path || a.may == 0 {
		out.path = b.path
	}
	return out
}

// comprehension evaluates a macro such as exists: its step runs until nothing new may
// come of it.
func (p *probe) comprehension(c ast.ComprehensionExpr, in *scope) outcome {
	over := p.eval(c.IterRange(), in)
	element := outcome{may: succeeds}
	if over.path != "" {
		element.path = over.path + "[]"
	}
	sum := p.eval(c.AccuInit(), in)
	for {
		inner := &scope{parent: &scope{parent: in, name: c.AccuVar(), value: sum}, name: c.IterVar(), value: element}
		if c.HasIterVar2() {
			inner = &scope{parent: inner, name: c.IterVar2(), value: element}
		}
		next := union(sum, p.eval(c.LoopStep(), inner))
		if next == sum {
			break
		}
		sum = next
	}
	out := p.eval(c.Result(), &scope{parent: in, name: c.AccuVar(), value: sum})
	out.may |= over.may & fails
	return out
}
