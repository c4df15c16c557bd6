package cases

import (
	"testing"
)

func TestOf(t *testing.T) {
	usual := 100
	if testing.Short() {
		usual = 20
	}
	for set, want := range map[string]int{"full": 400, "1000": 1000, "": usual, "many": usual} {
		t.Setenv(variable, set)
		if got := Of(400); got != want {
			t.Errorf("%s=%q: got %d cases, want %d", variable, set, got, want)
		}
	}
}
