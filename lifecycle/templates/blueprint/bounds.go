package blueprint

import "fmt"

const (
	// mostParameters are as many as a template can hold: each takes about 100
	// bytes, and API servers store 1 MiB.
	mostParameters = 12_000
	// mostDepth is how deep a VM may be: VirtualMachines have about 15 levels,
	// and what goes through it needs a frame for each level.
	mostDepth = 500
)

// A TooLarge is the error of a VM of which a template would have more parameters
// than API servers could store.
type TooLarge struct{ Parameters, Most int }

// Error says how many they are.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("the template would have %d parameters, at most %d can be stored", e.Parameters, e.Most)
}

// bounded says whether a VM is one of which a template can be stored, before
// anything is copied.
func bounded(vm map[string]any) error {
	for _, part := range []string{"metadata", "spec"} {
		if tooDeep(vm[part], mostDepth) {
			return fmt.Errorf("%s has more than %d levels", part, mostDepth)
		}
	}
	return fewEnough(leaves("", field(vm, "spec", "template", "spec")))
}

func fewEnough(parameters int) error {
	if parameters > mostParameters {
		return &TooLarge{Parameters: parameters, Most: mostParameters}
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

// leaves is how many scalars of an instance become parameters, at least.
func leaves(key string, value any) int {
	count := 0
	switch value := value.(type) {
	case map[string]any:
		for inner, child := range value {
			count += leaves(inner, child)
		}
	case []any:
		for _, child := range value {
			count += leaves("", child)
		}
	case nil:
	case string:
		if key != "name" {
			count = 1
		}
	default:
		if read, _ := scalar(value); !large(read) {
			count = 1
		}
	}
	return count
}

// few says whether there are not too many parameters, once it is known what
// becomes one.
func few(d *draft) error {
	count := 0
	for _, s := range d.sites {
		if s.class != "" && s.class != Generated { // which share one
			count++
		}
	}
	return fewEnough(count)
}
