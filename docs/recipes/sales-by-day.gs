function salesByDay() {
  const query =
    'group_by=day&status=paid&created_since=2026-01-01T00:00:00-03:00&limit=1000' +
    '&timezone=America/Sao_Paulo&format=csv_excel';
  const key = PropertiesService.getScriptProperties().getProperty('KEY');
  const response = UrlFetchApp.fetch(`https://api.example.com/v1/purchases/report?${query}`, {
    headers: { Authorization: 'Bearer ' + key },
  });
  const rows = Utilities.parseCsv(response.getContentText().replace(/^\uFEFF/, ''));
  const sheet = SpreadsheetApp.getActiveSheet();
  sheet.clearContents();
  sheet.getRange(1, 1, rows.length, rows[0].length).setValues(rows);
}
