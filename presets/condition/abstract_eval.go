package condition

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// An outcome is the set of results that an expression may have.
type outcome struct {
	may outcomes
	// path is the selection that the value comes from, elem that of each element of a list; empty
	// if unknown.
	path, elem string
	// optional says that the value is an optional, missing that it has no value, empty that it is
	// an empty list or map.
	optional, missing, empty bool
	// literal is the text that the value is, if isLiteral is true.
	literal   string
	isLiteral bool
}

type outcomes uint8

const (
	isTrue outcomes = 1 << iota
	isFalse
	isOther
	fails
	succeeds = isTrue | isFalse | isOther
)

// An abstractEval evaluates an expression for all VMs at once that lack one field. It tracks only
// whether the result may be true, false or an error.
type abstractEval struct {
	*analysis
	// absent is the selection that VMs lack; empty in a survey.
	absent string
	// seen and order collect the selections of a survey.
	seen  map[string]bool
	order []string
	// unknown collects messages about fields that no VM has, by selection; nil if not wanted.
	unknown map[string]string
	// at is the node whose result is a selection.
	at int64
}

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

func (p *abstractEval) eval(e ast.Expr, in *scope) outcome {
	if p.steps--; p.steps <= 0 {
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
		text, isText := e.AsLiteral().Value().(string)
		return outcome{may: isOther, literal: text, isLiteral: isText}
	case ast.IdentKind:
		if bound, ok := in.lookup(e.AsIdent()); ok {
			return bound
		}
		return outcome{may: succeeds, path: e.AsIdent()}
	case ast.SelectKind:
		s := e.AsSelect()
		operand := p.eval(s.Operand(), in)
		p.at = e.ID()
		return p.selects(operand, s.FieldName(), s.IsTestOnly())
	case ast.CallKind:
		return p.call(e, in)
	case ast.ComprehensionKind:
		return p.comprehension(e.AsComprehension(), in)
	}
	return p.parts(e, in)
}

func (p *abstractEval) parts(e ast.Expr, in *scope) outcome {
	out := outcome{may: isOther}
	add := func(part ast.Expr) outcome {
		o := p.eval(part, in)
		out.may |= o.may & fails
		return o
	}
	switch e.Kind() {
	case ast.ListKind:
		var all outcome
		for _, element := range e.AsList().Elements() {
			all = union(all, add(element))
		}
		out.elem, out.empty = all.path, len(e.AsList().Elements()) == 0
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			add(entry.AsMapEntry().Key())
			add(entry.AsMapEntry().Value())
		}
		out.empty = len(e.AsMap().Entries()) == 0
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			add(f.AsStructField().Value())
		}
	}
	return out
}

var none = outcome{may: isOther, optional: true, missing: true}

// selects evaluates the selection of a field, or has() of it.
func (p *abstractEval) selects(of outcome, name string, test bool) outcome {
	p.noteUnknown(of.path, name)
	failed := of.may & fails
	at := of.path + pathSeparator + name
	switch {
	case test:
		return outcome{may: p.has(of, at) | failed}
	case of.missing, of.optional && p.lacks(at):
		return none
	case of.empty, of.path != "" && p.lacks(at):
		return outcome{may: fails}
	case of.path == "":
		return outcome{may: succeeds | failed}
	}
	p.note(at)
	return outcome{may: succeeds | failed, path: at, optional: of.optional}
}

func (p *abstractEval) has(of outcome, at string) outcomes {
	switch {
	case of.missing, of.empty:
		return isFalse
	case of.path == "":
		return isTrue | isFalse
	}
	return p.presence(at)
}

func (p *abstractEval) lacks(path string) bool { return path == p.absent && p.absent != "" }

// note adds a selection to the survey, unless every VM has it.
func (p *abstractEval) note(path string) {
	switch from := p.origins[p.at]; {
	case p.seen == nil, p.alwaysSet[path], isAlwaysPresent(path):
	case !p.seen[path]:
		p.seen[path], p.from[path] = true, from
		p.order = append(p.order, path)
	case p.from[path] != from:
		p.from[path] = nil
	}
}

const (
	// A VM has a name or a generateName.
	nameSelection         = "object" + pathSeparator + "metadata" + pathSeparator + "name"
	generateNameSelection = "object" + pathSeparator + "metadata" + pathSeparator + "generateName"
)

// presence returns the possible results of has() for a path.
func (p *abstractEval) presence(path string) outcomes {
	isAround := strings.HasPrefix(p.absent, path+pathSeparator) || strings.HasPrefix(p.absent, path+"[]")
	isOtherName := path == generateNameSelection && p.absent == nameSelection || path == nameSelection && p.absent == generateNameSelection
	switch {
	case p.lacks(path):
		return isFalse
	case isAround, isOtherName, p.alwaysSet[path], isAlwaysPresent(path):
		return isTrue
	}
	return isTrue | isFalse
}

func (p *abstractEval) call(e ast.Expr, in *scope) outcome {
	call := e.AsCall()
	var args []outcome
	if call.IsMemberFunction() {
		args = append(args, p.eval(call.Target(), in))
	}
	for _, arg := range call.Args() {
		args = append(args, p.eval(arg, in))
	}
	p.at = e.ID()
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
		return p.called(name, args)
	}
}

func textOf(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	return tree.AsText(e.AsLiteral().Value())
}

// called evaluates a function. It fails if its arguments do.
func (p *abstractEval) called(name string, args []outcome) outcome {
	out := outcome{may: succeeds}
	for _, arg := range args {
		out.may |= arg.may & fails
	}
	switch {
	case len(args) == 0:
		if name == "optional.none" {
			return none
		}
	case name == "dyn":
		return args[0]
	case converters[name].accepts != nil:
		return p.converts(name, args[0], out)
	case name == "_==_":
		out.may = out.may&fails | equal(args[0], args[1])
	case name == "_!=_":
		out.may = out.may&fails | negated(equal(args[0], args[1]))
	case name == "_+_":
		both := union(args[0], args[1])
		out.elem, out.empty = union(outcome{path: args[0].elements()}, outcome{path: args[1].elements()}).path, both.empty
	default:
		return p.optionals(name, args, out)
	}
	return out
}

// converters are functions that fail for some texts, each with a text that it takes.
var converters = map[string]struct {
	accepts func(text string) error
	example string
}{
	"int":       {func(text string) error { _, err := strconv.ParseInt(text, 10, 64); return err }, "'1'"},
	"uint":      {func(text string) error { _, err := strconv.ParseUint(text, 10, 64); return err }, "'1'"},
	"double":    {func(text string) error { _, err := strconv.ParseFloat(text, 64); return err }, "'1'"},
	"quantity":  {func(text string) error { _, err := tree.ParseQuantity(text); return err }, "'1'"},
	"duration":  {func(text string) error { _, err := time.ParseDuration(text); return err }, "'1s'"},
	"timestamp": {func(text string) error { _, err := time.Parse(time.RFC3339, text); return err }, "'2000-01-01T00:00:00Z'"},
}

// converts evaluates the conversion of a text. Out is the outcome of any other function.
func (p *abstractEval) converts(name string, of, out outcome) outcome {
	if of.path != "" && p.converted != nil {
		p.converted[of.path] = converters[name].example
	}
	if of.isLiteral && converters[name].accepts(of.literal) != nil {
		return outcome{may: fails}
	}
	return out
}

// optionals evaluates the functions of optionals. Out is the outcome of any other function.
func (p *abstractEval) optionals(name string, args []outcome, out outcome) outcome {
	it := args[0]
	switch name {
	case "optional.of", "optional.ofNonZeroValue":
		it.optional = true
		return it
	case "value":
		if it.missing {
			return outcome{may: fails}
		}
	case "hasValue":
		if it.missing {
			return outcome{may: isFalse}
		}
		if it.path != "" {
			return outcome{may: p.presence(it.path) | it.may&fails}
		}
		return out
	case "or", "orValue":
		if it.missing && len(args) > 1 {
			return args[1]
		}
	default:
		return out
	}
	out.path, out.elem, out.optional = it.path, it.elem, name == "or"
	return out
}

// elements is the selection of each element of a list.
func (o outcome) elements() string {
	if o.elem == "" && o.path != "" {
		return o.path + "[]"
	}
	return o.elem
}

// index evaluates an index, or an optional selection, by name or by another expression.
func (p *abstractEval) index(of, key outcome, name string, optional bool) outcome {
	failed := (of.may | key.may) & fails
	if name == "" && isMap(of.path) {
		name = anyKey
	}
	switch {
	case of.missing, of.empty && optional:
		return none
	case of.path == "" && !of.empty:
		return outcome{may: succeeds | failed, path: of.elem}
	case name == "":
		return outcome{may: succeeds | failed, path: of.elements()}
	case optional:
		of.optional = true
	}
	out := p.selects(of, name, false)
	out.may |= failed
	return out
}

// isMap reports whether a selection is a map of a VM or a namespace, such as its labels.
func isMap(selection string) bool {
	s := schemaOfSelection(selection)
	if s == nil {
		return strings.HasPrefix(selection, "namespaceObject"+pathSeparator+"metadata"+pathSeparator)
	}
	return s.Shape == vmschema.Map
}

// contains evaluates a test for a key, or for another value.
func (p *abstractEval) contains(of, key outcome, name string) outcome {
	failed := (of.may | key.may) & fails
	if name == "" && isMap(of.path) {
		name = anyKey
	}
	switch {
	case of.empty:
		return outcome{may: isFalse | failed}
	case of.path == "" || name == "":
		return outcome{may: isTrue | isFalse | failed}
	}
	return outcome{may: p.presence(of.path+pathSeparator+name) | failed}
}
