package validation

import "iter"

// MaxProblems is the maximum number of errors of a result.
const MaxProblems = maxProblems

// Groups returns the title and the rules of each group.
func Groups() iter.Seq2[string, []Rule] {
	return func(yield func(string, []Rule) bool) {
		for _, group := range groups {
			if !yield(group.title, group.rules) {
				return
			}
		}
	}
}

// Rules returns all rules.
func Rules() []Rule {
	var all []Rule
	for _, group := range groups {
		all = append(all, group.rules...)
	}
	return all
}
