package condition

import (
	"fmt"
	"regexp"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// maxMatch limits the bytes of a text times the steps of its regular expression. A match takes as
// much time, up to a fifth of a second.
const maxMatch = 16 << 20

// A pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp

	steps int
}

func newPattern(text string) (*pattern, error) {
	steps := patternSize(text)
	if steps > maxPattern {
		return nil, fmt.Errorf("the regular expression is too large: its repetitions together have more than %d steps", maxPattern)
	}
	compiled, err := regexp.Compile(text)
	return &pattern{compiled, steps}, err
}

// limitMatch replaces a call of a function that matches a regular expression. It compiles a literal
// once.
func limitMatch(call interpreter.InterpretableCall) (interpreter.Interpretable, error) {
	args := call.Args()
	get := func(v ref.Val) (*pattern, error) { return newPattern(string(textIn(v))) }
	if literal, ok := args[1].(interpreter.InterpretableConst); ok {
		compiled, err := newPattern(string(textIn(literal.Value())))
		if err != nil {
			return nil, err
		}
		get = func(ref.Val) (*pattern, error) { return compiled, nil }
		args = append([]interpreter.InterpretableV2{args[0], opaque{literal}}, args[2:]...)
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, matches(call.Function(), get)), nil
}

// An opaque literal hides that it is one, because CEL would replace the call by its own.
type opaque struct{ interpreter.InterpretableV2 }

func matches(function string, get func(ref.Val) (*pattern, error)) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		text, isText := args[0].(types.String)
		if !isText || args[1].Type() != types.StringType {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		p, err := get(args[1])
		if err == nil && len(text)*p.steps > maxMatch {
			err = fmt.Errorf("a text of %d bytes is too long for a regular expression with %d steps", len(text), p.steps)
		}
		if err != nil {
			return types.WrapErr(err)
		}
		switch function {
		case "matches":
			return types.Bool(p.MatchString(string(text)))
		case "find":
			return types.String(p.FindString(string(text)))
		}
		return p.findAll(string(text), args[2:])
	}
}

func (p *pattern) findAll(text string, limit []ref.Val) ref.Val {
	most := maxItems + 1
	for _, v := range limit {
		n, ok := v.(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		if n >= 0 {
			most = int(min(n, maxItems+1))
		}
	}
	found := p.FindAllString(text, most)
	if len(found) > maxItems {
		return types.WrapErr(errManyItems)
	}
	return types.NewStringList(types.DefaultTypeAdapter, found)
}
