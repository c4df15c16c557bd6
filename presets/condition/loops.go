package condition

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// limitRange limits the items over which a loop iterates, because tracking the cost of a loop takes
// the square of their number. An attribute and a call stay one, because their costs depend on that.
func limitRange(i interpreter.Interpretable) interpreter.Interpretable {
	switch i := i.(type) {
	case interpreter.InterpretableAttribute:
		return limitedAttribute{i}
	case interpreter.InterpretableCall:
		return limitedCall{i}
	case interpreter.InterpretableConst, interpreter.InterpretableConstructor: // no longer than the expression
		return i
	case interpreter.InterpretableV2:
		return limitedValue{i}
	}
	return i
}

type limitedValue struct{ interpreter.InterpretableV2 }

// Exec evaluates the range.
func (i limitedValue) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return limitedItems(i.InterpretableV2.Exec(frame))
}

// Eval evaluates the range.
func (i limitedValue) Eval(vars interpreter.Activation) ref.Val {
	return limitedItems(i.InterpretableV2.Eval(vars))
}

type limitedAttribute struct {
	interpreter.InterpretableAttribute
}

// Exec evaluates the range.
func (i limitedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return limitedItems(i.InterpretableAttribute.Exec(frame))
}

// Eval evaluates the range.
func (i limitedAttribute) Eval(vars interpreter.Activation) ref.Val {
	return limitedItems(i.InterpretableAttribute.Eval(vars))
}

type limitedCall struct{ interpreter.InterpretableCall }

// Exec evaluates the range.
func (i limitedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return limitedItems(i.InterpretableCall.Exec(frame))
}

// Eval evaluates the range.
func (i limitedCall) Eval(vars interpreter.Activation) ref.Val {
	return limitedItems(i.InterpretableCall.Eval(vars))
}

func limitedItems(v ref.Val) ref.Val {
	if sized, ok := v.(traits.Sizer); ok && v.Type() != types.StringType {
		if n, ok := sized.Size().(types.Int); ok && n > maxItems {
			return types.WrapErr(errManyItems)
		}
	}
	return v
}
