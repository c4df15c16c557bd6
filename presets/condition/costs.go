package condition

import (
	"net/url"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	weighedText = 64 // bytes of text that count as one value
	costOfValue = 4  // in a list or map
	charge      = 8  // bytes of text that a call reads and may copy, for one unit of cost
)

// extraCosts are added to the costs of calls, by function.
var extraCosts = map[string]func(args []ref.Val, result ref.Val) int{
	"_+_": func(args []ref.Val, _ ref.Val) int { return nestedCost(args[1]) }, // map and filter add each item so

	"_==_":                    costOfArguments,
	"_!=_":                    costOfArguments,
	"@in":                     costOfArguments,
	"indexOf":                 costOfArguments,
	"lastIndexOf":             costOfArguments,
	"includes":                costOfArguments,
	"flatten":                 costOfArguments,
	"distinct":                costOfArguments,
	"sets.contains":           costOfArguments,
	"sets.equivalent":         costOfArguments,
	"sets.intersects":         costOfArguments,
	"optional.of":             costOfArguments,
	"optional.ofNonZeroValue": costOfArguments,
	"cel.@mapInsert":          costOfArguments,

	"replace":       func(_ []ref.Val, result ref.Val) int { return weight(result, MaxCost) },
	"format":        func(_ []ref.Val, result ref.Val) int { return weight(result, MaxCost) },
	"strings.quote": func(_ []ref.Val, result ref.Val) int { return weight(result, MaxCost) },
	"split":         func(_ []ref.Val, result ref.Val) int { return nestedCost(result) },

	"charAt":   costOfText,
	"size":     costOfText,
	"isURL":    costOfText,
	"url":      costOfText,
	"bytes":    costOfText,
	"string":   costOfText,
	"getQuery": costOfText,

	"matches": costOfMatch,
	"find":    costOfMatch,
	"findAll": func(args []ref.Val, result ref.Val) int { return costOfMatch(args, result) + nestedCost(result) },
}

func costOfArguments(args []ref.Val, _ ref.Val) int {
	cost := 0
	for _, arg := range args {
		cost += nestedCost(arg)
	}
	return cost
}

// costOfText is the cost of reading the text or the URL that a function is called for.
func costOfText(args []ref.Val, _ ref.Val) int {
	if u, ok := args[0].Value().(*url.URL); ok {
		return len(u.RawQuery) / charge
	}
	return len(textIn(args[0])) / charge
}

// A runtimeCost is the cost of the API server's policies, and that of nested values, of long texts
// and of regular expressions.
type runtimeCost struct{ library.CostEstimator }

// CallCost returns the cost of a call; nil if it is CEL's own.
func (c *runtimeCost) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := c.CostEstimator.CallCost(function, overload, args, result)
	extra := 0
	if more := extraCosts[function]; more != nil {
		extra = more(args, result)
	}
	if extra == 0 {
		return cost
	}
	total := uint64(extra)
	if cost != nil {
		total += *cost
	}
	return &total
}

// nestedCost is the cost of a value with others in it; 0 for other values.
func nestedCost(v ref.Val) int {
	switch v.(type) {
	case *types.Optional, traits.Lister, traits.Mapper:
		return costOfValue * weight(v, MaxCost)
	}
	return 0
}

// weight counts the values in a value, up to a maximum. Long text counts as several.
func weight(v ref.Val, most int) int {
	n := 1 + len(textIn(v))/weighedText
	for item := range items(v) {
		if n >= most {
			break
		}
		n += weight(item, most-n)
	}
	return min(n, most)
}

// costOfMatch is the cost of matching a text, and of compiling the regular expression for it.
func costOfMatch(args []ref.Val, _ ref.Val) int {
	return patternSize(string(textIn(args[1]))) * (1 + len(textIn(args[0]))/weighedText)
}
