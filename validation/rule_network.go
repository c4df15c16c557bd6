package validation

var networkRules []Rule
