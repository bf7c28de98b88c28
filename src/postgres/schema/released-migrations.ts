/**
 * The MD5 of each migration, then those of former files with the same statements and other comments.
 * Databases store the MD5 of the file that was applied, so an entry never changes.
 */
export const releasedMigrations: Readonly<Record<string, readonly [string, ...string[]]>> = {
  '001.do.organizations.sql': [
    '2cd6188cb1aba1eb061dbf7693f77744',
    'f4b31b24b9f0f6ad106681ef041e172f',
  ],
  '002.do.search.sql': ['2dc71d896aba8d65908e87e26a8b9b15'],
  '003.do.customers.sql': ['b57963981232e43ac008d0ce51a9602d'],
  '004.do.campaigns.sql': ['586b59653126c1bc80badd4e2729baba'],
  '005.do.purchases.sql': ['a59c9250fa38f59d211e39736c29c0f2', 'e5511c7d1b4ba1254cbbe922ab3c1d32'],
  '006.do.change-log.sql': ['6cd1cf17383a15dcbfec5774da8b6a8f', '6f1e81d2321a2b49ba57231a8d93f19f'],
  '007.do.customer-totals.sql': ['175ba05a4da77518a1335b20ce0711b1'],
  '008.do.mapping.sql': ['bc4334cf6eb76a477cd39d5b847d7baa'],
  '009.do.mapping-rows.sql': ['f10b58f8355bd0274f946cb6fc41a3cd'],
  '010.do.mapping-queue.sql': ['83064be77b9835b78763da64f334306e'],
  '011.do.mapped-numbers.sql': ['bf3b977b581c86db8169a28f43b425d6'],
  '012.do.mapped-keys.sql': ['60ae84dbb9a0937ac0df0cf9efdcf5ac'],
  '013.do.mapping-comparison.sql': ['b1d9df243f0d60cc41cf07d49b9e7f06'],
  '014.do.mapping-snapshot.sql': ['6c39d318eef180e3c4baf1021edf68cf'],
  '015.do.customer-list-indexes.sql': ['298ead184dc13124d432e4f9459eb555'],
};
