package validation

var resourceClaimRules []Rule
