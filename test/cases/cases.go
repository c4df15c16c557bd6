// Package cases says how many generated cases a test tries.
package cases

import (
	"os"
	"strconv"
	"testing"
)

// variable overrides the number of cases: "full", or a number for every test.
const variable = "VIRTWRIGHT_LAW_CASES"

// Of returns how many cases a test tries whose full number is given. It is a quarter, or a
// twentieth with -short. VIRTWRIGHT_LAW_CASES=full selects the full number, for make test-all
// before a release.
func Of(full int) int {
	set := os.Getenv(variable)
	n, err := strconv.Atoi(set)
	switch {
	case err == nil:
		return n
	case set == "full":
		return full
	case testing.Short():
		return full / 20
	}
	return full / 4
}
