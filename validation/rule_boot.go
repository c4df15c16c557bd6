package validation

var bootRules []Rule
