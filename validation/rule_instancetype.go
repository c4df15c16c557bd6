package validation

var instancetypeRules []Rule
