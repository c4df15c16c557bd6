package format

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// mostDifferences is how many of them an error tells.
const mostDifferences = 20

// differences lists where two values of JSON differ, and how; not the values.
func differences(want, got any) []error {
	c := comparison{}
	c.compare("", want, got)
	if more := len(c.found) - mostDifferences; more > 0 {
		return append(c.found[:mostDifferences], fmt.Errorf("and %d more differences", more))
	}
	return c.found
}

type comparison struct{ found []error }

func (c *comparison) differ(at, how string) { c.found = append(c.found, fmt.Errorf("%s: %s", at, how)) }

func (c *comparison) compare(at string, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		if fields, ok := got.(map[string]any); ok {
			c.fields(at, want, fields)
			return
		}
	case []any:
		if items, ok := got.([]any); ok {
			c.items(at, want, items)
			return
		}
	}
	switch a, b := kindOf(want), kindOf(got); {
	case a != b:
		c.differ(at, "is "+b+", not "+a)
	case a == "a number" && !sameNumber(want, got), a != "a number" && want != got:
		c.differ(at, "has another value")
	}
}

func (c *comparison) fields(at string, want, got map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[key]; ok {
			c.compare(join(at, key), want[key], value)
		} else {
			c.differ(join(at, key), "is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			c.differ(join(at, key), "is extra")
		}
	}
}

func (c *comparison) items(at string, want, got []any) {
	if len(want) != len(got) {
		c.differ(at, fmt.Sprintf("has %d items, not %d", len(got), len(want)))
		return
	}
	for i := range want {
		c.compare(at+"["+strconv.Itoa(i)+"]", want[i], got[i])
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "no value of JSON"
}

// sameNumber compares by value: an int64 is never rounded.
func sameNumber(a, b any) bool {
	return whole(a) == whole(b)
}

// whole is a number as an int64 if it is one, otherwise itself.
func whole(number any) any {
	f, ok := number.(float64)
	if ok && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		return int64(f)
	}
	return number
}
