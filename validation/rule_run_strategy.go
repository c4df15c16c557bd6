package validation

var runStrategyRules []Rule
