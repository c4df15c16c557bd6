package validation

var memoryRules []Rule
