package validation

var probeRules []Rule
