package validation

var credentialRules []Rule
