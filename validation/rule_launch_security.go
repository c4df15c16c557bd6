package validation

var launchSecurityRules []Rule
