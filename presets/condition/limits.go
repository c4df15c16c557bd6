package condition

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/virtwright/virtwright/presets/tree"
)

// The limits of what an expression makes. CEL's cost is charged after a call, which alone could
// take all memory.
const (
	maxText    = 256 << 10               // bytes of text; all annotations of an object have as many
	maxItems   = 4 << 10                 // items of a list, with those of lists in it
	maxPattern = maxNodes * patternSteps // steps of all regular expressions
)

// limits say before a call why it would make or take too much; nil if it does not. The receiver of
// a method is the first argument.
var limits = map[string]func(args []ref.Val) error{
	"replace":         limitReplaced,
	"join":            limitText,
	"format":          limitText,
	"split":           limitSplit,
	"strings.quote":   limitText,
	"flatten":         limitItems,
	"distinct":        limitItems,
	"sets.contains":   limitItems,
	"sets.equivalent": limitItems,
	"sets.intersects": limitItems,
	"lists.range": func(args []ref.Val) error {
		if n, ok := args[0].(types.Int); ok && n > maxItems {
			return fmt.Errorf("lists.range supports at most %d, not %d", maxItems, n)
		}
		return nil
	},
	"quantity":   limitQuantity,
	"isQuantity": limitQuantity,
}

func limitReplaced(args []ref.Val) error {
	text, old, by := string(textIn(args[0])), string(textIn(args[1])), string(textIn(args[2]))
	if len(by) <= len(old) {
		return nil
	}
	if size := len(text) + occurrences(args)*(len(by)-len(old)); size > maxText {
		return fmt.Errorf("the text would have %d bytes, more than %d", size, maxText)
	}
	return nil
}

func limitSplit(args []ref.Val) error {
	if occurrences(args) > maxItems {
		return errManyItems
	}
	return nil
}

// occurrences counts the second argument in the first, up to the limit that the last one may be.
func occurrences(args []ref.Val) int {
	n := strings.Count(string(textIn(args[0])), string(textIn(args[1])))
	if most, ok := args[len(args)-1].(types.Int); ok && most >= 0 {
		n = min(n, int(min(most, maxText)))
	}
	return n
}

func textIn(v ref.Val) types.String {
	text, _ := v.(types.String)
	return text
}

// limitText limits the text of all arguments together. A separator counts for each item.
func limitText(args []ref.Val) error {
	left := maxText
	for _, arg := range args {
		if left = lessText(arg, left); left < 0 {
			return fmt.Errorf("the text would have more than %d bytes", maxText)
		}
	}
	list, isList := args[0].(traits.Lister)
	if separator := len(args) == 2 && isList; separator && sizeOf(list)*len(textIn(args[1])) > left {
		return fmt.Errorf("the text would have more than %d bytes", maxText)
	}
	return nil
}

// lessText returns how many bytes of text are left after a value; less than 0 if it has more.
func lessText(v ref.Val, left int) int {
	left -= len(textIn(v))
	for item := range items(v) {
		if left = lessText(item, left-1); left < 0 {
			break
		}
	}
	return left
}

// items are the items of a list, the keys and values of a map, or the value of an optional.
func items(v ref.Val) iter.Seq[ref.Val] {
	return func(yield func(ref.Val) bool) {
		switch v := v.(type) {
		case *types.Optional:
			if v.HasValue() {
				yield(v.GetValue())
			}
		case traits.Mapper:
			for it := v.Iterator(); it.HasNext() == types.True; {
				if key := it.Next(); !yield(key) || !yield(v.Get(key)) {
					return
				}
			}
		case traits.Lister:
			for it := v.Iterator(); it.HasNext() == types.True; {
				if !yield(it.Next()) {
					return
				}
			}
		}
	}
}

func sizeOf(list traits.Lister) int {
	n, _ := list.Size().(types.Int)
	return int(n)
}

var errManyItems = fmt.Errorf("the list has more than %d items, with those of lists in it", maxItems)

func limitItems(args []ref.Val) error {
	for _, arg := range args {
		if weight(arg, maxItems+1) > maxItems {
			return errManyItems
		}
	}
	return nil
}

func limitQuantity(args []ref.Val) error {
	if text := string(textIn(args[0])); tree.HugeQuantity(text) {
		return fmt.Errorf("quantity %s has too many digits", tree.Show(text))
	}
	return nil
}

// decorator returns a decorator of a program that checks the limits of each call and loop.
func decorator(e ast.Expr) (interpreter.InterpretableDecorator, error) {
	functions, err := limitedFunctions()
	if err != nil {
		return nil, err
	}
	ranges := map[int64]bool{}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind && e.AsComprehension().IterRange().Kind() != ast.ComprehensionKind { // whose range is limited
			ranges[e.AsComprehension().IterRange().ID()] = true
		}
	}))
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		i, err := limitCall(i, functions)
		if err == nil && ranges[i.ID()] {
			i = limitRange(i)
		}
		return i, err
	}, nil
}

func limitCall(i interpreter.Interpretable, limited map[string]functions.FunctionOp) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if ok && slices.Contains(matchers, call.Function()) {
		return limitMatch(call)
	}
	if !ok || limits[call.Function()] == nil {
		return i, nil
	}
	f := limited[call.OverloadID()]
	if f == nil {
		f = limited[call.Function()]
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), f), nil
}

// limitedFunctions are functions with limits, by overload; or by function, if it has one for all.
var limitedFunctions = sync.OnceValues(func() (map[string]functions.FunctionOp, error) {
	env, err := policyEnv()
	if err != nil {
		return nil, err
	}
	out := map[string]functions.FunctionOp{}
	for name, limit := range limits {
		bindings, err := env.Functions()[name].Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			out[b.Operator] = limited(b, limit)
		}
	}
	return out, nil
})

func limited(f *functions.Overload, limit func([]ref.Val) error) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		if err := limit(args); err != nil {
			return types.WrapErr(err)
		}
		switch {
		case f.Unary != nil && len(args) == 1:
			return f.Unary(args[0])
		case f.Binary != nil && len(args) == 2:
			return f.Binary(args[0], args[1])
		}
		return f.Function(args...)
	}
}
