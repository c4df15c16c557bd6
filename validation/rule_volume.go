package validation

var volumeRules []Rule
