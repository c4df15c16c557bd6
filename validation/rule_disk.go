package validation

var diskRules []Rule
