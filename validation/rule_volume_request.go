package validation

var volumeRequestRules []Rule
