package validation

var cloudInitRules []Rule
