package validation

var schedulingRules []Rule
