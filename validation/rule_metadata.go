package validation

var metadataRules []Rule
