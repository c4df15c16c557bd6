package blueprint

import "fmt"

const (
	// maxParameters is how many parameters a template can hold: each takes about 100 bytes, and API
	// servers store 1 MiB.
	maxParameters = 12_000
	// maxDepth bounds recursion. VirtualMachines have about 15 levels.
	maxDepth = 500
)

// A TooLarge is the error of a VM that would give more parameters than API servers can store.
type TooLarge struct{ Parameters, Most int }

// Error gives both numbers.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("the template would have %d parameters; at most %d can be stored", e.Parameters, e.Most)
}

// checkBounds checks the size of a VM before anything is copied.
func checkBounds(vm map[string]any) error {
	for _, part := range []string{"metadata", "spec"} {
		if tooDeep(vm[part], maxDepth) {
			return fmt.Errorf("%s has more than %d levels", part, maxDepth)
		}
	}
	return checkCount(countLeaves("", field(vm, "spec", "template", "spec")))
}

func checkCount(parameters int) error {
	if parameters > maxParameters {
		return &TooLarge{Parameters: parameters, Most: maxParameters}
	}
	return nil
}

func tooDeep(value any, levels int) bool {
	if levels == 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			if tooDeep(child, levels-1) {
				return true
			}
		}
	case []any:
		for _, child := range value {
			if tooDeep(child, levels-1) {
				return true
			}
		}
	}
	return false
}

// countLeaves returns a lower bound of the number of parameters.
func countLeaves(key string, value any) int {
	count := 0
	switch value := value.(type) {
	case map[string]any:
		for inner, child := range value {
			count += countLeaves(inner, child)
		}
	case []any:
		for _, child := range value {
			count += countLeaves("", child)
		}
	case nil:
	case string:
		if key != "name" {
			count = 1
		}
	default:
		if read, _ := scalar(value); !isLarge(read) {
			count = 1
		}
	}
	return count
}

func checkParameters(d *draft) error {
	count := 0
	for _, s := range d.sites {
		if s.class != "" && s.class != Generated { // all generated names share one parameter
			count++
		}
	}
	return checkCount(count)
}
