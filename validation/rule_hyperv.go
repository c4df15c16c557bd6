package validation

var hypervRules []Rule
