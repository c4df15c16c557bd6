package validation

var deviceRules []Rule
