package validation

var portRules []Rule
