package validation

var interfaceRules []Rule
