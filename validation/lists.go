package validation

import (
	"fmt"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pointers yields the elements of a list where they are.
func pointers[T any](list []T) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i := range list {
			if !yield(i, &list[i]) {
				return
			}
		}
	}
}

// namesOf yields the names of elements in their order.
func namesOf[T any](list []T, nameOf func(*T) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, element := range pointers(list) {
			if !yield(nameOf(element)) {
				return
			}
		}
	}
}

// forEach returns a check that applies to every element of a list.
func forEach[T any](
	list func(*ExpandedVM) []T, check func(vm *ExpandedVM, r *Report, i int, element *T),
) func(*ExpandedVM, *Report) {
	return func(vm *ExpandedVM, r *Report) {
		elements := list(vm)
		for i := range elements {
			check(vm, r, i, &elements[i])
		}
	}
}

// orEmpty returns what a pointer points to, or an empty value for nil.
func orEmpty[T any](given *T) *T {
	if given == nil {
		return new(T)
	}
	return given
}

// childPath returns the path of a field below a path, or the path itself if no field is named.
func childPath(at *field.Path, more []string) *field.Path {
	if len(more) == 0 {
		return at
	}
	return at.Child(more[0], more[1:]...)
}

// repeated yields each position with a name that occurs earlier in the list too, and the first
// position of that name. Empty names are ignored.
func repeated(length int, name func(i int) string) iter.Seq2[int, int] {
	return func(yield func(i, first int) bool) {
		positions := make(map[string]int, length)
		for i := range length {
			text := name(i)
			first, again := positions[text]
			switch {
			case text == "":
			case !again:
				positions[text] = i
			case !yield(i, first):
				return
			}
		}
	}
}

// duplicate returns an error with a detail, which field.Duplicate does not have.
func duplicate(at *field.Path, value any, detail string) *field.Error {
	err := field.Duplicate(at, value)
	err.Detail = detail
	return err
}

// uniqueNames returns a check that the elements of a list have different names. Path is the path of
// the list in the spec of a VMI.
func uniqueNames[T any](
	elements func(*ExpandedVM) []T, name func(element *T) string, path ...string,
) func(*ExpandedVM, *Report) {
	return func(vm *ExpandedVM, r *Report) {
		list := elements(vm)
		if len(list) < 2 { // as in most VMs
			return
		}
		nameAt := func(i int) string { return name(&list[i]) }
		for i, first := range repeated(len(list), nameAt) {
			r.Add(duplicateName(vm.Path("spec", path...), i, nameAt(i), first))
		}
	}
}

// duplicateName returns the error of list element i, which has the same name as the element first.
func duplicateName(list *field.Path, i int, name string, first int) *field.Error {
	text := list.String()
	detail := fmt.Sprintf("%s[%d] has the same name; names must be unique", text[strings.LastIndexByte(text, '.')+1:], first)
	return duplicate(list.Index(i).Child("name"), name, detail)
}
