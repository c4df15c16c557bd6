package condition

import "github.com/google/cel-go/common/ast"

// logical evaluates && or ||. A side that decides the result hides a failure of the other.
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

// union returns either of two outcomes. It keeps the selection if only one of them is known.
func union(a, b outcome) outcome {
	if a.may&^fails == 0 && a.path == "" {
		b.may |= a.may
		return b
	}
	if b.may&^fails == 0 && b.path == "" {
		a.may |= b.may
		return a
	}
	literal, isLiteral := sameLiteral(a, b)
	return outcome{
		literal: literal, isLiteral: isLiteral,
		may: a.may | b.may, path: either(a.path, b.path), elem: either(a.elem, b.elem),
		optional: a.optional || b.optional, missing: a.missing && b.missing, empty: a.empty && b.empty,
	}
}

func sameLiteral(a, b outcome) (string, bool) {
	if a.isLiteral && b.isLiteral && a.literal == b.literal {
		return a.literal, true
	}
	return "", false
}

func either(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return ""
}

// comprehension evaluates a macro such as exists, until the outcome no longer changes.
func (p *abstractEval) comprehension(c ast.ComprehensionExpr, in *scope) outcome {
	over := p.eval(c.IterRange(), in)
	element := outcome{may: succeeds, path: over.elements()}
	sum := p.eval(c.AccuInit(), in)
	for range maxRounds {
		inner := &scope{parent: &scope{parent: in, name: c.AccuVar(), value: sum}, name: c.IterVar(), value: element}
		if c.HasIterVar2() {
			inner = &scope{parent: &scope{parent: inner, name: c.IterVar(), value: outcome{may: succeeds}}, name: c.IterVar2(), value: element}
		}
		if over.empty {
			break
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

// maxRounds is more than the number of changes that an outcome can have.
const maxRounds = 8

// equal compares two values. It knows true, false and missing optionals.
func equal(a, b outcome) outcomes {
	switch {
	case a.missing && b.missing:
		return isTrue
	case a.optional && b.optional && (a.missing || b.missing):
		return isFalse
	case b.isBoolean():
		return equalTo(b, a)
	case a.isBoolean():
		return equalTo(a, b)
	}
	return isTrue | isFalse
}

func (o outcome) isBoolean() bool { return (o.may == isTrue || o.may == isFalse) && o.path == "" }

func equalTo(known, value outcome) outcomes {
	out := value.may & (isTrue | isFalse)
	if known.may == isFalse {
		out = negated(out)
	}
	if value.may&isOther != 0 {
		out |= isFalse // another value equals no boolean
	}
	return out
}
