package validation

var diskGeometryRules []Rule
