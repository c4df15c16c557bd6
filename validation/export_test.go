package validation

// Rules returns all rules.
var Rules = rules

// MaxProblems is the maximum number of errors of a result.
const MaxProblems = maxProblems
