package validation

var firmwareRules []Rule
